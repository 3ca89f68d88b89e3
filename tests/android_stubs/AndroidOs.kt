/** Stubs of android.os. */
package android.os

object Build {
    object VERSION {
        @JvmField var SDK_INT: Int = 36
    }

    object VERSION_CODES {
        const val Q: Int = 29
    }
}

class PowerManager {
    fun interface OnThermalStatusChangedListener {
        fun onThermalStatusChanged(status: Int)
    }

    /** Not Android's: lets a test play the device. */
    val listeners = ArrayList<OnThermalStatusChangedListener>()

    fun addThermalStatusListener(listener: OnThermalStatusChangedListener) {
        listeners += listener
    }

    fun removeThermalStatusListener(listener: OnThermalStatusChangedListener) {
        listeners -= listener
    }

    companion object {
        const val THERMAL_STATUS_SEVERE: Int = 3
        const val THERMAL_STATUS_CRITICAL: Int = 4
    }
}
