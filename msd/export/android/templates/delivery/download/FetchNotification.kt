package dev.msd.delivery

import android.app.Notification
import android.app.NotificationChannel
import android.app.NotificationManager
import android.app.PendingIntent
import android.app.Service
import android.content.Intent
import android.graphics.drawable.Icon
import android.os.Build
import dev.msd.runtime.R

/** The notification of a download: how far it is, and a button that cancels it; a touch opens the app. */
internal class FetchNotification(private val service: Service) {
    private val manager = service.getSystemService(NotificationManager::class.java)
    private var shown = -1
    private var ended = false

    /** Shows how far the download is; Android drops what changes too often, so only whole percents are shown. */
    @Synchronized
    fun show(arrival: Arrival) {
        if (ended || arrival !is Arrival.Fetching || percent(arrival) == shown) return
        shown = percent(arrival)
        manager?.notify(ID, of(arrival))
    }

    /** Shows nothing more: what is shown goes with the service. */
    @Synchronized
    fun end() {
        ended = true
    }

    /** Returns the notification; of 0 bytes nobody knows how far they are. */
    fun of(arrival: Arrival.Fetching): Notification = builder()
        .setSmallIcon(android.R.drawable.stat_sys_download)
        .setContentTitle(service.getString(R.string.msd_fetching))
        .setProgress(ALL, percent(arrival), arrival.total == 0L)
        .setOngoing(true)
        .setOnlyAlertOnce(true)
        .setContentIntent(opening())
        .addAction(cancelling())
        .build()

    private fun percent(arrival: Arrival.Fetching) = (ALL * arrival.done / maxOf(arrival.total, 1)).toInt()

    @Suppress("DEPRECATION")
    private fun builder(): Notification.Builder {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.O) return Notification.Builder(service)
        val name = service.getString(R.string.msd_fetching)
        manager?.createNotificationChannel(NotificationChannel(CHANNEL, name, NotificationManager.IMPORTANCE_LOW))
        return Notification.Builder(service, CHANNEL)
    }

    private fun opening(): PendingIntent? = service.packageManager.getLaunchIntentForPackage(service.packageName)
        ?.let { PendingIntent.getActivity(service, 0, it, PendingIntent.FLAG_IMMUTABLE) }

    private fun cancelling(): Notification.Action {
        val intent = Intent(service, FetchService::class.java).setAction(FetchService.CANCEL)
        return Notification.Action.Builder(
            Icon.createWithResource(service, android.R.drawable.ic_menu_close_clear_cancel),
            service.getString(android.R.string.cancel),
            PendingIntent.getService(service, 0, intent, PendingIntent.FLAG_IMMUTABLE),
        ).build()
    }

    companion object {
        const val ID = 0x6d7364
        private const val ALL = 100
        private const val CHANNEL = "msd-download"
    }
}
