package dev.msd.delivery

import android.app.Service
import android.content.Context
import android.content.Intent
import android.content.pm.ServiceInfo
import android.os.Build
import android.os.IBinder
import android.os.PowerManager
import kotlin.concurrent.thread

/**
 * Keeps the process alive while the model is downloaded, and shows how far that is; the user can cancel it.
 *
 * Android starts it again if the process ends before the download does, which then goes on from where it was.
 */
public class FetchService : Service() {
    override fun onBind(intent: Intent?): IBinder? = null

    override fun onStartCommand(intent: Intent?, flags: Int, startId: Int): Int {
        val base = intent?.getStringExtra(BASE)
        if (base == null || intent.action == CANCEL) {
            end("the download was cancelled in its notification; the next time it goes on from there")
            return START_NOT_STICKY
        }
        val notification = FetchNotification(this)
        if (!isShown(notification)) {
            stopSelf(startId)
            return START_NOT_STICKY
        }
        // In a new process nobody but the service downloads; otherwise the app has begun, and may have ended it.
        val isNew = flags and START_FLAG_REDELIVERY != 0
        thread(name = "msd-service", isDaemon = true) {
            attend(notification, startId) { if (isNew) Models(this, base).begin() else Fetch.running() }
        }
        return START_REDELIVER_INTENT
    }

    /** Android 15 ends such services after six hours in the background. */
    override fun onTimeout(startId: Int, fgsType: Int): Unit =
        end("Android ends downloads after six hours in the background; open the app and it goes on from there")

    private fun end(reason: String) {
        Fetch.end(reason)
        stopSelf()
    }

    /** Returns whether Android lets the service run: not always one that it starts again in the background. */
    private fun isShown(notification: FetchNotification): Boolean = try {
        val first = notification.of(Arrival.Fetching(0, 0))
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) {
            startForeground(FetchNotification.ID, first, ServiceInfo.FOREGROUND_SERVICE_TYPE_DATA_SYNC)
        } else {
            startForeground(FetchNotification.ID, first)
        }
        true
    } catch (_: IllegalStateException) {
        false
    }

    private fun attend(notification: FetchNotification, startId: Int, fetch: () -> Fetch?) {
        val power = getSystemService(PowerManager::class.java)
        val awake = power?.newWakeLock(PowerManager.PARTIAL_WAKE_LOCK, "msd:download")
        awake?.acquire(LONGEST)
        try {
            fetch()?.await(notification::show, owner = false)
        } catch (_: Exception) {
            // The app is told too, if it waits; if it does not, it tries again when it is opened.
        } finally {
            // After its time it is released, and once more would be an error.
            if (awake != null && awake.isHeld) awake.release()
            notification.end()
            stopSelf(startId)
        }
    }

    internal companion object {
        const val BASE = "dev.msd.delivery.BASE"
        const val CANCEL = "dev.msd.delivery.CANCEL"

        /** Six hours in milliseconds, after which Android ends the service anyway. */
        private const val LONGEST = 6L * 60 * 60 * 1000

        /** Starts it; without it, as in an app that is not visible, the download lasts as long as the process. */
        fun start(context: Context, base: String) {
            val intent = Intent(context, FetchService::class.java).putExtra(BASE, base)
            try {
                if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.O) {
                    context.startForegroundService(intent)
                } else {
                    context.startService(intent)
                }
            } catch (_: IllegalStateException) {
                // ForegroundServiceStartNotAllowedException, since Android 12.
            }
        }
    }
}
