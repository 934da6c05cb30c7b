package edlcmd

import (
	"errors"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/tensorboard"
)

// curvesReporter writes what another reporter shows to event files of TensorBoard, too: NAME/train of each step that is reported, and NAME/eval of each
// evaluation. A program that trains nothing has NAME/eval only.
type curvesReporter struct {
	reporter
	file  *tensorboard.Writer
	watch watch
	ended bool
}

// withCurves makes r write event files to dir, unless that is empty.
func withCurves(r reporter, dir string, what watch) (reporter, error) {
	if dir == "" {
		return r, nil
	}
	file, err := tensorboard.Create(dir)
	if err != nil {
		return nil, inFile("--tensorboard", err)
	}
	return &curvesReporter{reporter: r, file: file, watch: what}, nil
}

func (r *curvesReporter) write(step uint64, values []tensorboard.Scalar) error {
	if err := r.file.Write(step, values...); err != nil {
		return err
	}
	return r.file.Flush()
}

func (r *curvesReporter) step(s executor.StepResult) error {
	if s.Step%r.watch.every == 0 {
		of := "/train"
		if r.watch.mean {
			of = "/eval"
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
			values = append(values, tensorboard.Scalar{Tag: name + of, Value: float(t, 0)})
		}
		if err := r.write(s.Step, values); err != nil {
			return err
		}
	}
	return r.reporter.step(s)
}

func (r *curvesReporter) evaluated(e evaluation) error {
	var values []tensorboard.Scalar
	for _, result := range e.results {
		values = append(values, tensorboard.Scalar{Tag: result.Name + "/eval", Value: result.Value})
	}
	if err := r.write(e.step, values); err != nil {
		return err
	}
	return r.reporter.evaluated(e)
}

func (r *curvesReporter) done(s executor.Summary, m *means, o outcome) error {
	r.ended = true
	return errors.Join(r.file.Close(), r.reporter.done(s, m, o))
}

func (r *curvesReporter) close() {
	if !r.ended {
		_ = r.file.Close() // the run has failed already
	}
	r.reporter.close()
}
