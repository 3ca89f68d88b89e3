package com.google.android.play.core.assetpacks.model;

public @interface AssetPackErrorCode {
    int NO_ERROR = 0;
    int APP_UNAVAILABLE = -1;
    int PACK_UNAVAILABLE = -2;
    int INVALID_REQUEST = -3;
    int DOWNLOAD_NOT_FOUND = -4;
    int API_NOT_AVAILABLE = -5;
    int NETWORK_ERROR = -6;
    int ACCESS_DENIED = -7;
    int INSUFFICIENT_STORAGE = -10;
    int PLAY_STORE_NOT_FOUND = -11;
    int NETWORK_UNRESTRICTED = -12;
    int APP_NOT_OWNED = -13;
    int CONFIRMATION_NOT_REQUIRED = -14;
    int UNRECOGNIZED_INSTALLATION = -15;
    int INTERNAL_ERROR = -100;
}
