package android;

public final class R {
    public static final class drawable {
        public static final int ic_menu_close_clear_cancel = 17301560;
        public static final int stat_sys_download = 17301633;
    }

    public static final class layout {
        public static final int simple_spinner_dropdown_item = 17367049;
    }

    public static final class string {
        public static final int cancel = 17039360;
    }
}
