package android.widget;

import android.text.Editable;

final class StandInEditable implements Editable {
    private final String text;
    StandInEditable(CharSequence text) { this.text = text.toString(); }
    public int length() { return text.length(); }
    public char charAt(int index) { return text.charAt(index); }
    public CharSequence subSequence(int start, int end) { return text.subSequence(start, end); }
    public String toString() { return text; }
}
