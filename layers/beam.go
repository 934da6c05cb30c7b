package layers

// BeamSearch selects the best words of a step of beam search. scores are of the candidates ids of each prefix, and accumulate those of the words before. The
// results are the selected words, their scores, and the prefix that each goes on from. See the op for the sequences that the results form.
//
// Options: Name. Op: beam_search.
func BeamSearch(preIDs, preScores, ids, scores Variable, size, end int64, opts ...Option) (selectedIDs, selectedScores, parents Variable) {
	l := start("beam_search", opts, nil, preIDs, preScores, ids, scores)
	out := l.multi("beam_search", In{"pre_ids": {preIDs}, "pre_scores": {preScores}, "ids": {ids}, "scores": {scores}},
		Attrs{"beam_size": size, "end_id": end, "level": 0, "is_accumulated": true}, "selected_ids", "selected_scores", "parent_idx")
	return l.result(out[0]), out[1], out[2]
}

// BeamSearchDecode follows the steps of a beam search back. ids and scores are arrays of what BeamSearch has selected in each step. The results are the sequences
// of each source, the best first, and the score after each word.
//
// Options: Name. Op: beam_search_decode.
func BeamSearchDecode(ids, scores Variable, size, end int64, opts ...Option) (sentences, sentenceScores Variable) {
	l := start("beam_search_decode", opts, nil, ids, scores)
	out := l.multi("beam_search_decode", In{"Ids": {ids}, "Scores": {scores}}, Attrs{"beam_size": size, "end_id": end}, "SentenceIds", "SentenceScores")
	return l.result(out[0]), out[1]
}
