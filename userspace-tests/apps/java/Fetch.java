// SPDX-License-Identifier: MIT

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Fetches a URL several times and compares what comes with a file.
 *
 * <pre>
 * Fetch URL FILE TIMES
 * </pre>
 */
public final class Fetch {
    private Fetch() {
    }

    public static void main(String[] arguments) throws IOException {
        byte[] wanted = Files.readAllBytes(Path.of(arguments[1]));
        int times = Integer.parseInt(arguments[2]);
        long begin = System.nanoTime();
        for (int i = 0; i < times; i++) {
            try (InputStream body = URI.create(arguments[0]).toURL().openStream()) {
                if (!Arrays.equals(body.readAllBytes(), wanted)) {
                    throw new IOException("another file came");
                }
            }
        }
        System.out.println("compared " + (long) times * wanted.length
            + " nanoseconds " + (System.nanoTime() - begin));
    }
}
