package edlcmd

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/edlcmd/internal/lineplot"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/tensorboard"
	"github.com/spf13/cobra"
)

// Curves have the values of steps that are reported, or of evaluations.
const (
	trainCurve = "train"
	evalCurve  = "eval"
)

// curveFlags say where the curves of a run go.
type curveFlags struct {
	events string // folder
	plot   string // file
}

func (f *curveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.events, "tensorboard", "", "write the values of reported steps and of evaluations to the directory `DIR`, for TensorBoard")
	flags.StringVar(&f.plot, "plot", "", "draw these values over steps into the `FILE.svg`, at each evaluation and at the end")
}

// curvesReporter writes what another reporter shows as curves, too: those of a program that trains nothing are all of the evaluation.
type curvesReporter struct {
	reporter
	watch watch
	file  *tensorboard.Writer // nil: none
	plot  *lineplot.Plot      // nil: none
	path  string              // of plot
	ended bool
}

// wrap makes r write the curves of a run, if there are to be any. With an error it returns r as it is.
func (f *curveFlags) wrap(r reporter, what watch) (reporter, error) {
	c := &curvesReporter{reporter: r, watch: what, path: f.plot}
	if f.plot != "" {
		if !strings.EqualFold(filepath.Ext(f.plot), ".svg") {
			return r, fault.E(fault.InvalidArgument, fault.At("--plot"), fault.Got(fault.Quote(f.plot)), fault.Want("the name of an .svg file"))
		}
		c.plot = &lineplot.Plot{}
		if err := c.plot.WriteFile(f.plot); err != nil { // before the run, which may take long
			return r, inFile("--plot", err)
		}
	}
	if f.events != "" {
		file, err := tensorboard.Create(f.events)
		if err != nil {
			return r, inFile("--tensorboard", err)
		}
		c.file = file
	}
	if c.file == nil && c.plot == nil {
		return r, nil
	}
	return c, nil
}

// add adds values of a step to curves. Their tags are the names of quantities.
func (r *curvesReporter) add(curve string, step uint64, values []tensorboard.Scalar) error {
	for i, v := range values {
		if r.plot != nil {
			r.plot.Add(v.Tag, curve, step, v.Value)
		}
		values[i].Tag += "/" + curve
	}
	if r.file == nil {
		return nil
	}
	if err := r.file.Write(step, values...); err != nil {
		return err
	}
	return r.file.Flush()
}

// draw writes the plot.
func (r *curvesReporter) draw() error {
	if r.plot == nil {
		return nil
	}
	return r.plot.WriteFile(r.path)
}

func (r *curvesReporter) step(s executor.StepResult) error {
	if s.Step%r.watch.every == 0 {
		curve := trainCurve
		if r.watch.mean {
			curve = evalCurve
		}
		var values []tensorboard.Scalar
		for i, t := range s.Fetched {
			if t.Len() != 1 {
				continue
			}
			name := r.watch.names[i]
			if name == r.watch.loss {
				name = "loss"
			}
			values = append(values, tensorboard.Scalar{Tag: name, Value: float(t, 0)})
		}
		if err := r.add(curve, s.Step, values); err != nil {
			return err
		}
	}
	return r.reporter.step(s)
}

func (r *curvesReporter) evaluated(e evaluation) error {
	var values []tensorboard.Scalar
	for _, result := range e.results {
		values = append(values, tensorboard.Scalar{Tag: result.Name, Value: result.Value})
	}
	if err := errors.Join(r.add(evalCurve, e.step, values), r.draw()); err != nil {
		return err
	}
	return r.reporter.evaluated(e)
}

func (r *curvesReporter) done(s executor.Summary, m *means, o outcome) error {
	return errors.Join(r.end(), r.reporter.done(s, m, o))
}

// end writes what is left, once.
func (r *curvesReporter) end() error {
	if r.ended {
		return nil
	}
	r.ended = true
	err := r.draw()
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	return err
}

func (r *curvesReporter) close() {
	_ = r.end() // of a run that has failed already
	r.reporter.close()
}
