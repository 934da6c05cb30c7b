package jobspec

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
)

// maxEvalMetrics bounds the metrics of an evaluation.
const maxEvalMetrics = 100

// wrongEvaluation says what is wrong with the evaluation of a job, and what it takes; nothing if nothing is.
func wrongEvaluation(s *job.JobSpec) (got, want string) {
	e := s.Evaluation
	if e == nil {
		return "", ""
	}
	if got, want = NotByTrainers(s); got != "" {
		return got, want
	}
	switch {
	case len(e.Data) == 0 || slices.ContainsFunc(e.Data, func(d *job.DataBinding) bool { return len(d.Globs) == 0 || d.Follow }):
		return "without data, or with data that grow", "files of held-back records"
	case len(e.Metrics) > maxEvalMetrics:
		return fmt.Sprintf("of %d metrics", len(e.Metrics)), fmt.Sprintf("at most %d", maxEvalMetrics)
	}
	return "", ""
}

// NotByTrainers says why the trainers of a job cannot evaluate its parameters at a round boundary, and what they need; nothing if they can. Whoever follows the
// job may evaluate a sync one, from a Save in the callback of a step.
func NotByTrainers(s *job.JobSpec) (got, want string) {
	switch {
	case s.Mode != job.Mode_SYNC:
		return "of an async job", "sync mode: async trainers have no parameters in common"
	case s.Fed:
		return "of a job that is fed", "a job that reads its own data"
	case Backups(s) > 0:
		return "with backup_trainers", "a job whose rounds wait for all trainers"
	case s.CompressParameters != "" && s.CompressParameters != "none":
		return "with compress_parameters " + s.CompressParameters, "parameters that travel as float32: trainers have rounded ones"
	}
	return "", ""
}

// TableOnServers returns a table of embeddings that an evaluating program reads and trainers do not hold; empty: there is none.
func TableOnServers(p *program.Program) string {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			distributed, _ := op.Bool("is_distributed")
			if distributed || op.Type == "lookup_sparse_table" {
				return op.In("W")
			}
		}
	}
	return ""
}

// EvaluationProgram decodes the program by which a job is evaluated; nil: it is not. It refuses an evaluation that no trainer could do: it looks up the variables of the metrics in the program.
func EvaluationProgram(s *job.JobSpec) (*program.Program, error) {
	e := s.Evaluation
	if e == nil {
		return nil, nil
	}
	p, err := program.Decode(e.Program, program.DefaultLimits())
	if err == nil {
		err = ops.Verify(p, program.StageLocal)
	}
	if err != nil {
		return nil, fault.Wrap(fault.KindOf(err), "the evaluation of the job", err)
	}
	where := fault.At("the evaluation of the job")
	if executor.Trains(p) {
		return nil, fault.E(fault.InvalidArgument, where, fault.Got("a program that trains"), fault.Want("one that only evaluates, such as a clone for test"))
	}
	if table := TableOnServers(p); table != "" {
		return nil, fault.E(fault.Unsupported, where, fault.Var(table), fault.Got("a table that pservers alone hold"), fault.Want("tables that trainers hold"),
			fault.Hint("the command \"edl run\" evaluates such a program itself"))
	}
	score, err := EvaluationScore(e)
	if err == nil {
		err = executor.CheckRun(p, executor.TrainOptions{Data: EvaluationData(e), Fetch: score.Names()})
	}
	if err != nil {
		return nil, fault.Wrap(fault.KindOf(err), "the evaluation of the job", err)
	}
	return p, nil
}

// EvaluationScore returns the score of no rows of an evaluation.
func EvaluationScore(e *job.Evaluation) (*metrics.Score, error) {
	var specs []metrics.Spec
	for _, text := range e.Metrics {
		spec, err := metrics.ParseSpec(text)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return metrics.NewScore(e.Loss, specs...)
}

// EvaluationData returns the globs of the held-back data by the names of its datasets.
func EvaluationData(e *job.Evaluation) map[string][]string {
	data := map[string][]string{}
	for _, d := range e.Data {
		data[d.Dataset] = append(data[d.Dataset], d.Globs...)
	}
	return data
}
