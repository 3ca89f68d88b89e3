package android.net;

import android.os.Parcelable;
import java.io.File;
import org.jetbrains.annotations.Nullable;

public abstract class Uri implements Parcelable, Comparable<Uri> {
    Uri() {}
    public static Uri parse(String uriString) { return new StandInUri(uriString); }
    public static Uri fromFile(File file) { return new StandInUri("file://" + file.getPath()); }
    public static Uri withAppendedPath(Uri baseUri, String pathSegment) {
        return new StandInUri(baseUri + "/" + pathSegment);
    }
    public abstract String toString();
    @Nullable public abstract String getPath();
    @Nullable public abstract String getLastPathSegment();
    public int compareTo(Uri other) { return toString().compareTo(other.toString()); }
}
