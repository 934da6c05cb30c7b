package layers

// BeamSearch selects the best words of a step of beam search. Each prefix has a row of ids, which are candidates for its next word, and a row of scores. A score
// includes the scores of the words before. The results are the selected words, their scores, and the number of the prefix that each continues. The op describes
// the sequences that they form.
//
// Options: Name. Op: beam_search.
func BeamSearch(preIDs, preScores, ids, scores Variable, size, end int64, opts ...Option) (selectedIDs, selectedScores, parents Variable) {
	l := start("beam_search", opts, nil, preIDs, preScores, ids, scores)
	out := l.multi("beam_search", In{"pre_ids": {preIDs}, "pre_scores": {preScores}, "ids": {ids}, "scores": {scores}},
		Attrs{"beam_size": size, "end_id": end, "level": 0, "is_accumulated": true}, "selected_ids", "selected_scores", "parent_idx")
	return l.result(out[0]), out[1], out[2]
}

// BeamSearchDecode reads the sentences off the steps of a beam search. The arrays ids and scores have one item for each step: what BeamSearch has selected. The
// results are the sentences of each source, the best first, and the score after each word.
//
// Options: Name. Op: beam_search_decode.
func BeamSearchDecode(ids, scores Variable, size, end int64, opts ...Option) (sentences, sentenceScores Variable) {
	l := start("beam_search_decode", opts, nil, ids, scores)
	out := l.multi("beam_search_decode", In{"Ids": {ids}, "Scores": {scores}}, Attrs{"beam_size": size, "end_id": end}, "SentenceIds", "SentenceScores")
	return l.result(out[0]), out[1]
}
