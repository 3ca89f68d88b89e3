package android.os;

public class Build {
    public static final String BRAND = said("BRAND", "stand-in");
    public static final String ID = said("ID", "stand-in");
    public static final String MANUFACTURER = said("MANUFACTURER", "stand-in");
    public static final String MODEL = said("MODEL", "stand-in");
    public static final String HARDWARE = said("HARDWARE", "stand-in");
    public static final String SOC_MANUFACTURER = said("SOC_MANUFACTURER", "stand-in");
    public static final String SOC_MODEL = said("SOC_MODEL", "stand-in");
    public static final String[] SUPPORTED_ABIS = abis("SUPPORTED_ABIS", "arm64-v8a,armeabi-v7a");
    public static final String[] SUPPORTED_64_BIT_ABIS = abis("SUPPORTED_64_BIT_ABIS", "arm64-v8a");
    private static String said(String name, String usual) {
        return System.getProperty("android.os.Build." + name, usual);
    }
    private static String[] abis(String name, String usual) {
        String said = said(name, usual);
        return said.isEmpty() ? new String[0] : said.split(",");
    }
    public Build() {}

    public static class VERSION {
        public static final String RELEASE = said("VERSION.RELEASE", "stand-in");
        public static final int SDK_INT = Integer.getInteger("android.os.Build.VERSION.SDK_INT", 36);
        public VERSION() {}
    }

    public static class VERSION_CODES {
        public static final int N = 24;
        public static final int N_MR1 = 25;
        public static final int O = 26;
        public static final int O_MR1 = 27;
        public static final int P = 28;
        public static final int Q = 29;
        public static final int R = 30;
        public static final int S = 31;
        public static final int S_V2 = 32;
        public static final int TIRAMISU = 33;
        public static final int UPSIDE_DOWN_CAKE = 34;
        public static final int VANILLA_ICE_CREAM = 35;
        public static final int BAKLAVA = 36;
        public VERSION_CODES() {}
    }
}
