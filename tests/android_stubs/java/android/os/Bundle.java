package android.os;

public final class Bundle extends BaseBundle implements Cloneable, Parcelable {
    public Bundle() {}
    public Object clone() { throw new RuntimeException("Stub!"); }
}
