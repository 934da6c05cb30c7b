package kernel

// Frames says how frames lie in signals. With Last a signal is [Samples] and its frames are [Length, Count], one signal after the other. Else signals lie side by side:
// [Samples, Signals], and frames [Count, Length, Signals].
type Frames struct {
	Signals, Samples   int
	Length, Count, Hop int
	Last               bool
}

// each calls do for each sample of each frame of signals [from, to), with its place among the frames and its place in the signals.
func (f Frames) each(from, to int, do func(frame, sample int)) {
	for signal := from; signal < to; signal++ {
		for i := range f.Length {
			for n := range f.Count {
				frame, sample := (signal*f.Length+i)*f.Count+n, signal*f.Samples+n*f.Hop+i
				if !f.Last {
					frame, sample = (n*f.Length+i)*f.Signals+signal, (n*f.Hop+i)*f.Signals+signal
				}
				do(frame, sample)
			}
		}
	}
}

// Frame writes the frames of signals [from, to) (Fluid's frame).
func Frame[T Number](f Frames, out, x []T, from, to int) {
	f.each(from, to, func(frame, sample int) { out[frame] = x[sample] })
}

// OverlapAdd adds up frames to signals [from, to), and writes 0 where there is no frame (Fluid's overlap_add). Without Last a call takes all signals.
func OverlapAdd[T Number](f Frames, out, x []T, from, to int) {
	if f.Last {
		clear(out[from*f.Samples : to*f.Samples])
	} else {
		clear(out)
	}
	f.each(from, to, func(frame, sample int) { out[sample] += x[frame] })
}
