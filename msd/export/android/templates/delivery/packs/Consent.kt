package dev.msd.delivery

import android.app.Activity
import com.google.android.play.core.assetpacks.AssetPackManagerFactory

/**
 * Shows Google Play's dialog, whose answer Play acts on and tells the listeners of packs.
 *
 * The dialog of AI packs needs AndroidX's launchers, that of asset packs any Activity. ai-delivery 0.1.1-alpha01
 * hands everything to the manager of asset packs, one for the process, so that its dialog serves both.
 */
internal fun showConsent(activity: Activity) {
    AssetPackManagerFactory.getInstance(activity).showConfirmationDialog(activity)
}
