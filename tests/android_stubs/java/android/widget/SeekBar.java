package android.widget;

import android.content.Context;
import android.util.AttributeSet;

public class SeekBar extends AbsSeekBar {
    private OnSeekBarChangeListener listener;
    public SeekBar(Context context) { super(context); }
    public SeekBar(Context context, AttributeSet attrs) { super(context, attrs); }
    public void setOnSeekBarChangeListener(OnSeekBarChangeListener l) { listener = l; }
    @Override void moved(boolean fromUser) {
        if (listener != null) listener.onProgressChanged(this, getProgress(), fromUser);
    }

    public interface OnSeekBarChangeListener {
        void onProgressChanged(SeekBar seekBar, int progress, boolean fromUser);
        void onStartTrackingTouch(SeekBar seekBar);
        void onStopTrackingTouch(SeekBar seekBar);
    }
}
