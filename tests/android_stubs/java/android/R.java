package android;

public final class R {
    public R() {}

    public static final class drawable {
        public static final int ic_menu_close_clear_cancel = 0x01080038;
        public static final int stat_sys_download = 0x01080081;
        public drawable() {}
    }

    public static final class layout {
        public static final int simple_spinner_dropdown_item = 0x01090009;
        public layout() {}
    }

    public static final class string {
        public static final int cancel = 0x01040000;
        public string() {}
    }
}
