// Package metrics says how good predictions are: AUC, accuracy, top-k, log loss, precision, recall, F1, calibration, RMSE, MAE and R2 of batches of
// (prediction, label) or (prediction, label, weight).
//
// A Metric takes batch after batch, and its memory does not grow with their number. Its value depends on which rows it was given, and on nothing else: not on
// their order, not on how they were divided into batches, and not on which parts were given to several metrics that Merge has joined. So the value of a
// cluster is that of one machine, bit for bit. For that, sums are exact until they are rounded once.
//
// A Set computes several metrics of what a run fetches:
//
//	set, err := metrics.Of(metrics.Spec{Kind: "auc", Prediction: "click", Label: "label"}, metrics.Spec{Kind: "log_loss", Prediction: "click", Label: "label"})
//	...
//	run := executor.TrainOptions{Data: data, Fetch: set.Names()}
//	_, err = exe.Train(ctx, p.CloneForTest(), run, func(s executor.StepResult) error { return set.Add(s.Fetched) })
//	results, err := set.Results()
//	for _, r := range results {
//		fmt.Println(r.Name, r.Value)
//	}
//
// Files in reading order: set.go (Spec, Set), pairs.go (what a program predicts), rule.go (when training ends), score.go (Score), state.go (how the score of a part travels), metric.go (Metric), kinds.go (the table of metrics), rows.go (what is read
// and refused), ranking.go (AUC), sum.go (exact sums).
package metrics
