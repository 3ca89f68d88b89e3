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

    override fun onCreate() {
        super.onCreate()
        instance = this
    }

    public companion object {
        /** The application of this process, for the instrumented test. */
        public lateinit var instance: StudioApplication
            private set
    }
}
