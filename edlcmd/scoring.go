package edlcmd

import (
	"slices"

	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
)

// A scoring computes the metrics of --metric of what a run fetches.
type scoring struct {
	specs []metrics.Spec
	set   *metrics.Set
	at    []int // places of the variables of set among those that are fetched
}

// metricFlag adds --metric.
func metricFlag(cmd *cobra.Command, texts *[]string) {
	cmd.Flags().StringArrayVar(texts, "metric", nil, "of an evaluation, or with --eval-data: compute a metric, as `KIND=PREDICTION,LABEL[,WEIGHT]`, such as auc=prediction,label; "+
		"KIND alone takes the variables from the loss; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("metric", cobra.FixedCompletions(metrics.Kinds(), cobra.ShellCompDirectiveNoFileComp))
}

// newScoring reads the values of --metric for the program that is evaluated.
func newScoring(texts []string, p *program.Program) (*scoring, error) {
	s := &scoring{}
	var err error
	if s.specs, err = metricSpecs(texts, p); err != nil {
		return nil, err
	}
	if err := s.reset(); err != nil {
		return nil, inFile("--metric", err)
	}
	return s, nil
}

// metricSpecs reads the values of --metric, with the variables of a program that they leave out.
func metricSpecs(texts []string, p *program.Program) (specs []metrics.Spec, err error) {
	for _, text := range texts {
		spec, err := metrics.ParseSpec(text)
		if err == nil {
			spec, err = spec.Fill(p)
		}
		if err != nil {
			return nil, inFile("--metric", err)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// reset forgets all rows.
func (s *scoring) reset() (err error) {
	s.set, err = metrics.Of(s.specs...)
	return err
}

// fetch returns names, and behind them the variables that the metrics need in addition.
func (s *scoring) fetch(names []string) []string {
	all := slices.Clone(names)
	s.at = nil
	for _, name := range s.set.Names() {
		i := slices.Index(all, name)
		if i < 0 {
			i = len(all)
			all = append(all, name)
		}
		s.at = append(s.at, i)
	}
	return all
}

// add adds the rows of a step that has fetched what fetch returned.
func (s *scoring) add(fetched []*tensor.Tensor) error {
	values := make([]*tensor.Tensor, len(s.at))
	for i, at := range s.at {
		values[i] = fetched[at]
	}
	return s.set.Add(values)
}
