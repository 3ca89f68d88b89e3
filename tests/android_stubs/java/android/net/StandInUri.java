package android.net;

final class StandInUri extends Uri {
    private final String text;
    StandInUri(String text) { this.text = text; }
    public String toString() { return text; }
    public String getPath() { return text.replaceFirst("^\\w+://[^/]*", ""); }
    public String getLastPathSegment() { return text.substring(text.lastIndexOf('/') + 1); }
    public boolean equals(Object other) { return other instanceof Uri && other.toString().equals(text); }
    public int hashCode() { return text.hashCode(); }
}
