package dev.msd.tried

import android.app.Application
import android.app.NotificationManager
import android.app.StandInSystem
import android.content.Intent
import android.os.PowerManager
import android.os.StandInPower
import dev.msd.download.FetchService
import dev.msd.download.Models
import dev.msd.download.Patience
import dev.msd.download.played
import org.json.JSONObject

/** The contexts of apps by their folder: a service lives in the app's. */
private val contexts = HashMap<String, TriedContext>()

private fun contextOf(command: JSONObject) =
    contexts.getOrPut(command.getString("home")) { context(command) }.apply {
        isVisible = command.optBoolean("visible", true)
    }

private fun patience(command: JSONObject) = Patience(
    connect = command.optInt("connect", 60_000),
    read = command.optInt("read", 60_000),
    pause = command.optLong("pause", 1),
    tries = command.optInt("tries", 5),
)

internal fun download(command: JSONObject): Model =
    played(Models(contextOf(command), command.getString("base"), patience(command)))

private var running: FetchService? = null
private val notifications = StandInSystem.notifications()

/** Does to a service what Android does: starts it, with a redelivered intent too, cancels it, ends its time. */
internal fun service(command: JSONObject): Any? {
    val context = contextOf(command)
    when (command.getString("event")) {
        "start" -> {
            context.services[NotificationManager::class.java] = notifications
            context.services[PowerManager::class.java] = StandInPower.manager()
            running = FetchService().also { StandInSystem.attach(it, context, Application()) }
            if (command.optBoolean("forbidden")) StandInSystem.forbid(running!!)
            val flags = if (command.optBoolean("again")) android.app.Service.START_FLAG_REDELIVERY else 0
            val intent = if (command.optBoolean("again")) intent(command) else context.started.removeAt(0)
            return running!!.onStartCommand(intent, flags, 1)
        }
        "cancel" -> return running!!.onStartCommand(Intent().setAction(FetchService.CANCEL), 0, 2)
        "timeout" -> running!!.onTimeout(1, 1)
        "started" -> return context.started.size
    }
    return seen(running!!)
}

private fun intent(command: JSONObject) = Intent().putExtra(FetchService.BASE, command.getString("base"))

private fun seen(service: FetchService): JSONObject {
    val shown = StandInSystem.shown(notifications).lastOrNull() ?: StandInSystem.foreground(service)
    return JSONObject()
        .put("stopped", StandInSystem.stopped(service))
        .put("type", StandInSystem.foregroundType(service))
        .put("percent", if (shown == null) -1 else StandInSystem.done(shown))
        .put("title", shown?.let { "${StandInSystem.title(it)}" })
        .put("actions", shown?.actions?.size)
}
