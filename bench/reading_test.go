package bench

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A program that reads trains as the one that is fed with the same batches: bit for bit.
func TestReadingTrainsAsTheFedWorkload(t *testing.T) {
	for _, name := range []string{"fit_a_line/sgd", "fc:4:5-7-2/adam", "flat:2:3:768/sgd", "ctr:4/adam", "ctr_tables:4/adam", "ctr_keys:4/adam"} {
		t.Run(name, func(t *testing.T) {
			fed, err := New(name)
			if err != nil {
				t.Fatal(err)
			}
			reading, err := NewReading(name)
			if err != nil {
				t.Fatal(err)
			}
			const steps = 2*batches - 3
			data, err := reading.Write(t.TempDir(), steps*reading.Rows)
			if err != nil {
				t.Fatal(err)
			}
			training, err := Start(t.Context(), fed, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer training.Close()
			local := executor.New()
			defer local.Close()
			trained := 0
			_, err = local.Train(t.Context(), reading.Program, executor.TrainOptions{Data: data, Passes: 1, Fetch: []string{reading.Fetch}},
				func(r executor.StepResult) error {
					want, err := training.Step(t.Context(), trained)
					trained++
					if err == nil && tensor.Data[float32](r.Fetched[0])[0] != tensor.Data[float32](want)[0] {
						t.Errorf("step %d: %v, want %v", r.Step, r.Fetched[0], want)
					}
					return err
				})
			if err != nil || trained != steps {
				t.Errorf("%d of %d steps: %v", trained, steps, err)
			}
		})
	}
}

func TestNewReadingRefuses(t *testing.T) {
	for name, kind := range map[string]fault.Kind{"lstm/sgd": fault.Unsupported, "sgemm:3x4x5": fault.Unsupported, "fc:8/sgd": fault.InvalidArgument,
		"flat:1:2:100/sgd": fault.InvalidArgument, "flat:1:2/sgd": fault.InvalidArgument, "conv:0/sgd": fault.InvalidArgument} {
		if _, err := NewReading(name); !errors.Is(err, kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFlatHasTheParametersOfItsName(t *testing.T) {
	r, err := NewReading("flat:3:4:1024/sgd")
	if err != nil {
		t.Fatal(err)
	}
	parameters, bytes := 0, int64(0)
	for _, v := range r.Program.Global().Vars() {
		if dims := v.Dims; v.Persistable && len(dims) == 2 && dims[0] == flatRows {
			parameters++
			bytes += 4 * elements(dims)
		}
	}
	if parameters != 4 || bytes != 1024 || r.Rows != 3 {
		t.Errorf("%d parameters of %d bytes, batches of %d rows", parameters, bytes, r.Rows)
	}
}
