package android.content;

import android.net.Uri;
import android.os.Bundle;
import java.io.FileNotFoundException;
import java.io.InputStream;
import java.io.OutputStream;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

public abstract class ContentResolver {
    public ContentResolver(@Nullable Context context) {}
    @Nullable public final Uri insert(@NotNull Uri url, @Nullable ContentValues values) {
        return insert(url, values, null);
    }
    @Nullable public final Uri insert(@NotNull Uri url, @Nullable ContentValues values, @Nullable Bundle extras) {
        return stored(url, values);
    }
    Uri stored(Uri url, ContentValues values) { throw new RuntimeException("Stub!"); }
    OutputStream opened(Uri uri) throws FileNotFoundException {
        throw new RuntimeException("Stub!");
    }
    int changed(Uri uri, ContentValues values) { throw new RuntimeException("Stub!"); }
    int removed(Uri uri) { throw new RuntimeException("Stub!"); }
    InputStream read(Uri uri) throws FileNotFoundException { throw new RuntimeException("Stub!"); }
    @Nullable public final InputStream openInputStream(@NotNull Uri uri) throws FileNotFoundException {
        return read(uri);
    }
    @Nullable public final OutputStream openOutputStream(@NotNull Uri uri) throws FileNotFoundException {
        return opened(uri);
    }
    @Nullable public final OutputStream openOutputStream(@NotNull Uri uri, @NotNull String mode)
            throws FileNotFoundException {
        return opened(uri);
    }
    public final int update(@NotNull Uri uri, @Nullable ContentValues values, @Nullable String where,
            @Nullable String[] selectionArgs) {
        return changed(uri, values);
    }
    public final int delete(@NotNull Uri url, @Nullable String where, @Nullable String[] selectionArgs) {
        return removed(url);
    }
}
