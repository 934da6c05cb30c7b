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

// NormByTimes divides the gradient of each sequence in WarpCTC by the number of its frames.
func NormByTimes() Option { return Option{"NormByTimes", func(s *settings) { s.byTimes = true }} }

// WarpCTC is the loss of connectionist temporal classification of each sequence, [sequences, 1]: -log of the probability that its frames read as its labels. logits,
// [rows, classes] in sequences, has a score for each class of a frame, and one for blank; the softmax is part of the loss. label, int32 [labels, 1], has as many
// sequences of labels.
//
// Options: NormByTimes, Name. Op: warpctc.
func WarpCTC(logits, label Variable, blank int, opts ...Option) Variable {
	l := start("warpctc", opts, []string{"NormByTimes"}, logits, label)
	return l.result(l.multi("warpctc", In{"Logits": {logits}, "Label": {label}}, Attrs{"blank": blank, "norm_by_times": l.byTimes}, "Loss", "WarpCTCGrad")[0])
}

// WarpCTCPadded is WarpCTC for padded sequences: logits [frames, batch, classes] and label int32 [batch, labels], with the lengths of both, int64 [batch].
//
// Options: NormByTimes, Name. Op: warpctc.
func WarpCTCPadded(logits, label, logitsLength, labelLength Variable, blank int, opts ...Option) Variable {
	l := start("warpctc", opts, []string{"NormByTimes"}, logits, label, logitsLength, labelLength)
	in := In{"Logits": {logits}, "Label": {label}, "LogitsLength": {logitsLength}, "LabelLength": {labelLength}}
	return l.result(l.multi("warpctc", in, Attrs{"blank": blank, "norm_by_times": l.byTimes}, "Loss", "WarpCTCGrad")[0])
}
