package dev.msd.delivery

import com.google.android.play.core.@@{library}.model.@@{kind}PackErrorCode
import dev.msd.runtime.BadFile
import dev.msd.runtime.NoSpace
import dev.msd.runtime.RuntimeFailure
import dev.msd.runtime.Why

/** Returns whether an error of Google Play may be over when it is asked once more. */
internal fun mayPass(code: Int): Boolean = when (code) {
    @@{kind}PackErrorCode.NETWORK_ERROR, @@{kind}PackErrorCode.INTERNAL_ERROR,
    @@{kind}PackErrorCode.DOWNLOAD_NOT_FOUND,
    -> true
    else -> false
}

/** Returns an error of Google Play as a failure that says why. */
internal fun failure(code: Int): RuntimeFailure {
    val sentence = "Google Play does not deliver the model: ${reason(code)} (error $code)"
    return if (code == @@{kind}PackErrorCode.INSUFFICIENT_STORAGE) NoSpace(sentence, 0)
    else BadFile(sentence, why = why(code))
}

private fun why(code: Int): Why = when (code) {
    @@{kind}PackErrorCode.API_NOT_AVAILABLE, @@{kind}PackErrorCode.APP_NOT_OWNED,
    @@{kind}PackErrorCode.PLAY_STORE_NOT_FOUND, @@{kind}PackErrorCode.UNRECOGNIZED_INSTALLATION,
    -> Why.NotFromPlay
    @@{kind}PackErrorCode.APP_UNAVAILABLE, @@{kind}PackErrorCode.INVALID_REQUEST,
    @@{kind}PackErrorCode.PACK_UNAVAILABLE,
    -> Why.NotOffered
    else -> Why.Unreachable
}

private fun reason(code: Int): String = when (code) {
    @@{kind}PackErrorCode.ACCESS_DENIED -> "the app is not visible; open it and try again"
    @@{kind}PackErrorCode.API_NOT_AVAILABLE -> "this device has no Google Play that delivers packs; update Google Play"
    @@{kind}PackErrorCode.APP_NOT_OWNED -> "nobody on this device has this app from Google Play; install it from there"
    @@{kind}PackErrorCode.APP_UNAVAILABLE -> "Google Play does not know this app or this version; install it from there"
    @@{kind}PackErrorCode.DOWNLOAD_NOT_FOUND -> "it does not keep the download; try again"
    @@{kind}PackErrorCode.INSUFFICIENT_STORAGE -> "the disk is too small; free some space and try again"
    @@{kind}PackErrorCode.INVALID_REQUEST -> "the app asks for packs that its version does not have; update the app"
    @@{kind}PackErrorCode.NETWORK_ERROR -> "the connection is broken; check it and try again"
    @@{kind}PackErrorCode.PACK_UNAVAILABLE -> "it has no such pack for this version of the app; update the app"
    @@{kind}PackErrorCode.PLAY_STORE_NOT_FOUND -> "this device has no Google Play"
    @@{kind}PackErrorCode.UNRECOGNIZED_INSTALLATION -> "this app was not installed from Google Play; install it from there"
    else -> "something is wrong in Google Play; try again"
}
