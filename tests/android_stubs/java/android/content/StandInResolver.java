package android.content;

import android.net.Uri;
import java.io.FileNotFoundException;
import java.io.InputStream;
import java.io.OutputStream;

/** No part of Android: a resolver whose providers a test plays. */
public abstract class StandInResolver extends ContentResolver {
    public StandInResolver() {
        super(null);
    }

    @Override
    public abstract Uri stored(Uri url, ContentValues values);

    @Override
    public abstract InputStream read(Uri uri) throws FileNotFoundException;

    @Override
    public abstract OutputStream opened(Uri uri) throws FileNotFoundException;

    @Override
    public abstract int changed(Uri uri, ContentValues values);

    @Override
    public abstract int removed(Uri uri);
}
