package android.system;

public final class ErrnoException extends Exception {
    public final int errno;
    public ErrnoException(String functionName, int errno) { this(functionName, errno, null); }
    public ErrnoException(String functionName, int errno, Throwable cause) {
        super(functionName, cause);
        this.errno = errno;
    }
}
