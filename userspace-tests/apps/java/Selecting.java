// SPDX-License-Identifier: MIT

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * An echo server and its client that do not block, each with one selector for all its channels.
 *
 * <pre>
 * Selecting server ADDRESS CHANNELS             serves so many channels to their ends
 * Selecting client ADDRESS PORT CHANNELS BYTES  sends so many bytes over each, compares the echo
 * </pre>
 */
public final class Selecting {
    private static final int ROOM = 65536;

    private Selecting() {
    }

    public static void main(String[] arguments) throws IOException {
        InetAddress address = InetAddress.getByName(arguments[1]);
        if (arguments[0].equals("server")) {
            serve(address, Integer.parseInt(arguments[2]));
        } else {
            ask(new InetSocketAddress(address, Integer.parseInt(arguments[2])),
                Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
        }
    }

    private static void serve(InetAddress address, int channels) throws IOException {
        long total = 0;
        try (Selector selector = Selector.open();
             ServerSocketChannel listener = ServerSocketChannel.open()) {
            listener.bind(new InetSocketAddress(address, 0), channels);
            listener.configureBlocking(false);
            listener.register(selector, SelectionKey.OP_ACCEPT);
            System.out.println("listening " + listener.socket().getLocalPort());
            for (int left = channels; left > 0;) {
                selector.select();
                for (SelectionKey key : selector.selectedKeys()) {
                    if (key.isAcceptable()) {
                        accept(selector, listener);
                    } else {
                        int count = echo(key);
                        left -= count < 0 ? 1 : 0;
                        total += Math.max(count, 0);
                    }
                }
                selector.selectedKeys().clear();
            }
        }
        System.out.println("echoed " + total);
    }

    private static void accept(Selector selector, ServerSocketChannel listener)
            throws IOException {
        SocketChannel channel;
        while ((channel = listener.accept()) != null) {
            channel.configureBlocking(false);
            channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(ROOM));
        }
    }

    /** Reads if all has been written, writes what has not; the bytes read, or -1 at the end. */
    private static int echo(SelectionKey key) throws IOException {
        SocketChannel channel = (SocketChannel) key.channel();
        ByteBuffer buffer = (ByteBuffer) key.attachment();
        int count = 0;
        if (key.isReadable()) {
            buffer.clear();
            count = channel.read(buffer);
            buffer.flip();
        }
        if (count < 0) {
            channel.close();
            return count;
        }
        channel.write(buffer);
        key.interestOps(buffer.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
        return count;
    }

    /** One channel of the client. */
    private static final class Exchange {
        final ByteBuffer sent;
        final ByteBuffer echo;

        Exchange(byte[] content) {
            sent = ByteBuffer.wrap(content);
            echo = ByteBuffer.allocate(content.length);
        }
    }

    private static void ask(InetSocketAddress address, int channels, int bytes)
            throws IOException {
        Random random = new Random(28);
        List<Exchange> exchanges = new ArrayList<>();
        long begin = System.nanoTime();
        try (Selector selector = Selector.open()) {
            for (int i = 0; i < channels; i++) {
                byte[] content = new byte[bytes];
                random.nextBytes(content);
                exchanges.add(new Exchange(content));
                SocketChannel channel = SocketChannel.open(address);
                channel.configureBlocking(false);
                channel.register(selector, SelectionKey.OP_READ | SelectionKey.OP_WRITE,
                    exchanges.get(i));
            }
            for (int left = channels; left > 0;) {
                selector.select();
                for (SelectionKey key : selector.selectedKeys()) {
                    left -= exchange(key) ? 1 : 0;
                }
                selector.selectedKeys().clear();
            }
        }
        for (Exchange one : exchanges) {
            if (!one.echo.flip().equals(one.sent.flip())) {
                throw new IOException("an echo is not what was sent");
            }
        }
        System.out.println("compared " + (long) channels * bytes
            + " nanoseconds " + (System.nanoTime() - begin));
    }

    /** Whether the channel has come to its end. */
    private static boolean exchange(SelectionKey key) throws IOException {
        SocketChannel channel = (SocketChannel) key.channel();
        Exchange one = (Exchange) key.attachment();
        if (key.isWritable()) {
            channel.write(one.sent);
            if (!one.sent.hasRemaining()) {
                channel.shutdownOutput();
                key.interestOps(SelectionKey.OP_READ);
            }
        }
        if (key.isReadable()) {
            ByteBuffer into = one.echo.hasRemaining() ? one.echo : ByteBuffer.allocate(1);
            int count = channel.read(into);
            if (count < 0) {
                channel.close();
                return true;
            }
            if (into != one.echo && count > 0) {
                throw new IOException("more came back than was sent");
            }
        }
        return false;
    }
}
