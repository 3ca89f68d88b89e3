package com.google.android.play.core.assetpacks;

import com.google.android.gms.common.api.ApiException;
import com.google.android.gms.common.api.Status;

public class AssetPackException extends ApiException {
    AssetPackException(int errorCode) {
        super(new Status(errorCode, "Asset Pack Download Error(" + errorCode + ")"));
    }
    public int getErrorCode() { return super.getStatusCode(); }
}
