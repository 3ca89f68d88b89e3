package android.content.pm;

import android.os.Parcelable;

public class ServiceInfo extends ComponentInfo implements Parcelable {
    public static final int FOREGROUND_SERVICE_TYPE_DATA_SYNC = 1 << 0;
    public static final int FOREGROUND_SERVICE_TYPE_SHORT_SERVICE = 1 << 11;
    public ServiceInfo() {}
}
