// Delivered by Play as plain files, which LiteRT maps into memory. "on-demand" in place of "fast-follow": when the
// app first asks. Not "install-time": then it is part of an APK, and would have to be copied out of it.
plugins { id("com.android.@@{plugin}") }

@@{block} {
    packName.set("@@{pack}")
    dynamicDelivery { deliveryType.set("fast-follow") }
}
