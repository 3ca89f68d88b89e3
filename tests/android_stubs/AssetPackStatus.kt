/** A stub of the states that a pack is in. */
@file:Suppress("unused")

package com.google.android.play.core.assetpacks.model

object AssetPackStatus {
    const val UNKNOWN: Int = 0
    const val PENDING: Int = 1
    const val DOWNLOADING: Int = 2
    const val TRANSFERRING: Int = 3
    const val COMPLETED: Int = 4
    const val FAILED: Int = 5
    const val CANCELED: Int = 6
    const val WAITING_FOR_WIFI: Int = 7
    const val NOT_INSTALLED: Int = 8
    const val REQUIRES_USER_CONFIRMATION: Int = 9
}
