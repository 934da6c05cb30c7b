package layers

import "github.com/edl-go/edl/fault"

// LinearChainCRF is the cost of labels in a linear-chain conditional random field, [sequences, 1]: the negative logarithm of their probability. x holds sequences
// of scores, [rows, tags], and label an int64 tag for each row, [rows, 1]. A sequence of tags scores the sum of what x says of each tag, and what
// the parameter says of the first tag (its row 0), of the last one (row 1) and of each tag (column) after another one (row 2 + the number of the tag before).
// Parameter: w_0 [tags+2, tags]; name it, to find the best tags with CRFDecoding.
//
// Options: Param (default Xavier), Name. Op: linear_chain_crf.
func LinearChainCRF(x, label Variable, opts ...Option) Variable {
	l := start("linear_chain_crf", opts, []string{"Param"}, x, label)
	in := In{"Emission": {x}, "Transition": {transitions(l, x)}, "Label": {label}}
	return l.result(l.multi("linear_chain_crf", in, nil, "LogLikelihood", "Alpha", "EmissionExps", "TransitionExps")[0])
}

// CRFDecoding finds the tags with the largest score in the field of LinearChainCRF, int64 [rows, 1]. Name the parameter of the field with Param.
//
// Options: Param, Name. Op: crf_decoding.
func CRFDecoding(x Variable, opts ...Option) Variable {
	l := start("crf_decoding", opts, []string{"Param"}, x)
	return l.result(l.op("crf_decoding", In{"Emission": {x}, "Transition": {transitions(l, x)}}, nil, "ViterbiPath"))
}

// transitions is the parameter of a field.
func transitions(l *layer, x Variable) Variable {
	if !l.failed && len(x.Dims()) != 2 {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Got(x.String()), fault.Want("[rows, tags]")))
	}
	if l.failed {
		return l.fail()
	}
	tags := x.Dims()[1]
	return l.parameter("w", l.param, x.DType(), []int64{tags + 2, tags}, Xavier())
}

// ChunkEval counts chunks, such as names of persons, that a model has found in sequences of tags, int64 [rows, 1], against the true ones in label. kinds is the number
// of their types, and scheme says what tags mean: plain, IOB, IOE or IOBES. precision, recall and f1, float32 [1], are those of the batch. See the op
// chunk_eval for tags of schemes, and for its counts.
//
// Options: Name (of f1). Op: chunk_eval.
func ChunkEval(found, label Variable, scheme string, kinds int, opts ...Option) (precision, recall, f1 Variable) {
	l := start("chunk_eval", opts, nil, found, label)
	out := l.multi("chunk_eval", In{"Inference": {found}, "Label": {label}}, Attrs{"chunk_scheme": scheme, "num_chunk_types": kinds}, "Precision", "Recall", "F1-Score")
	return out[0], out[1], l.result(out[2])
}

// ViterbiDecode finds the tags of sequences x [batch, steps, tags] that score most with the given transitions [tags, tags] between them. lengths int64 [batch] has the steps of
// each. With ends, the last row of transition is added for the first tag, and the row before it for the last. It returns the scores [batch] and the tags int64 [batch,
// longest]; only the run tells how long that is, so few layers take them: fetch them.
//
// Options: Name (of scores). Op: viterbi_decode.
func ViterbiDecode(x, transition, lengths Variable, ends bool, opts ...Option) (scores, path Variable) {
	return pairOp("viterbi_decode", In{"Input": {x}, "Transition": {transition}, "Length": {lengths}}, Attrs{"include_bos_eos_tag": ends}, "Scores", "Path", opts)
}
