package @@{package}

import android.app.Application
import android.os.Handler
import android.os.Looper
import java.util.concurrent.Executor

/** The process: it has one studio, however many screens come and go. */
public class StudioApplication : Application() {
    /** The owner of the networks. */
    public val studio: Studio by lazy {
        val main = Handler(Looper.getMainLooper())
        Studio(ThisPhone(this), Executor { main.post(it) })
    }
}
