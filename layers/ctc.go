package layers

// CTCGreedyDecoder reads labels off the scores of frames, [rows, classes] in sequences: it takes the best class of each frame, of equal neighbours the first, and
// leaves out blank. The labels of a sequence, int64 [labels, 1], are a sequence; without any label there is one row, -1. How many there are is known only when the op
// has run, so few layers take the result: fetch it.
//
// Options: Name. Ops: top_k, ctc_align.
func CTCGreedyDecoder(scores Variable, blank int, opts ...Option) Variable {
	l := start("ctc_greedy_decoder", opts, nil, scores)
	if l.failed {
		return l.fail()
	}
	_, best := TopK(scores, 1)
	return l.result(l.op("ctc_align", In{"Input": {best}}, Attrs{"merge_repeated": true, "blank": blank}, "Output"))
}

// CTCGreedyDecoderPadded is CTCGreedyDecoder for padded sequences, scores [batch, frames, classes]. lengths, int64 [batch, 1], says how many frames each has. labels
// is int64 [batch, frames], filled with padding, and counts [batch, 1] says how many labels each has.
//
// Options: Name (of labels). Ops: top_k, squeeze2, ctc_align.
func CTCGreedyDecoderPadded(scores, lengths Variable, blank, padding int, opts ...Option) (labels, counts Variable) {
	l := start("ctc_greedy_decoder", opts, nil, scores, lengths)
	if l.failed {
		return l.fail(), l.fail()
	}
	_, best := TopK(scores, 1)
	out := l.multi("ctc_align", In{"Input": {Squeeze(best, Axes(2))}, "InputLength": {lengths}}, Attrs{"merge_repeated": true, "blank": blank, "padding_value": padding},
		"Output", "OutputLength")
	return l.result(out[0]), out[1]
}
