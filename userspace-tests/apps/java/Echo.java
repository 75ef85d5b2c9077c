// SPDX-License-Identifier: MIT

import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;
import java.util.Random;

/**
 * An echo server and its client, with nothing about SDP in them: the Java runtime is told by
 * its configuration file to use it.
 *
 * <pre>
 * Echo server ADDRESS             serves one connection
 * Echo client ADDRESS PORT BYTES  sends messages of growing and odd sizes, compares each echo
 * </pre>
 */
public final class Echo {
    private static final int[] SIZES = {1, 17, 4096, 100, 32768, 65537, 1000, 262144, 3};

    private Echo() {
    }

    public static void main(String[] arguments) throws IOException {
        InetAddress address = InetAddress.getByName(arguments[1]);
        if (arguments[0].equals("server")) {
            serve(address);
        } else {
            ask(new InetSocketAddress(address, Integer.parseInt(arguments[2])),
                Long.parseLong(arguments[3]));
        }
    }

    private static void serve(InetAddress address) throws IOException {
        try (ServerSocket listener = new ServerSocket(0, 1, address)) {
            System.out.println("listening " + listener.getLocalPort());
            try (Socket socket = listener.accept()) {
                byte[] buffer = new byte[65536];
                long total = 0;
                int count;
                while ((count = socket.getInputStream().read(buffer)) > 0) {
                    socket.getOutputStream().write(buffer, 0, count);
                    total += count;
                }
                socket.shutdownOutput();
                System.out.println("echoed " + total);
            }
        }
    }

    private static void ask(InetSocketAddress address, long total) throws IOException {
        Random random = new Random(27);
        try (Socket socket = new Socket()) {
            socket.connect(address);
            socket.setTcpNoDelay(true);
            DataInputStream input = new DataInputStream(socket.getInputStream());
            long begin = System.nanoTime();
            long sent = 0;
            for (int turn = 0; sent < total; turn++) {
                byte[] message = new byte[SIZES[turn % SIZES.length]];
                random.nextBytes(message);
                socket.getOutputStream().write(message);
                byte[] echo = new byte[message.length];
                input.readFully(echo);
                if (!Arrays.equals(message, echo)) {
                    throw new IOException("the echo of message " + turn + " is not the message");
                }
                sent += message.length;
            }
            socket.shutdownOutput();
            if (input.read() != -1) {
                throw new IOException("data after the last echo");
            }
            System.out.println("compared " + sent + " nanoseconds " + (System.nanoTime() - begin));
        }
    }
}
