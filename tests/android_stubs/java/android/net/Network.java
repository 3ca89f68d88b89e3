package android.net;

import android.os.Parcelable;

public class Network implements Parcelable {
}
