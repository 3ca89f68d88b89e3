package dev.msd.runtime

/** Why something failed, without words. */
public sealed interface Why {
    /** A part of the app is damaged, or of another version than the rest: it has to be installed again. */
    public object DamagedApp : Why

    /** Files of the model are missing or damaged. */
    public object DamagedModel : Why

    /** Who delivers the model cannot be reached now; what has arrived stays. */
    public object Unreachable : Why

    /** Who delivers the model has none for this version of the app. */
    public object NotOffered : Why

    /** Google Play delivers the model, and did not install this app, or is not there. */
    public object NotFromPlay : Why

    /** [missing] bytes of space are missing on the device, 0 where that is not known. */
    public class FullDisk(public val missing: Long) : Why

    /** This model cannot do what a request asks for. */
    public object Unsuitable : Why

    /** The device does not run 64-bit apps of a kind that the model is for. */
    public object UnfitProcessor : Why

    /** The device has an older Android than the API level [needed]. */
    public class OldAndroid(public val needed: Int) : Why

    /** The device has [found] bytes of memory, and the model needs [needed]; 0 where that is not known. */
    public class LittleMemory(public val found: Long, public val needed: Long) : Why

    /** The device's GPU runs nothing, or cannot be found. */
    public object UnusableGpu : Why

    /** The device's GPU cannot compile or run one of the model's networks. */
    public object RefusedNetwork : Why

    /** The model computed nothing that can be shown. */
    public object NoPicture : Why

    /** Somebody ended it. */
    public object Ended : Why
}
