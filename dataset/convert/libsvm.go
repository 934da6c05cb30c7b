package convert

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/integer"
	"github.com/edl-go/edl/tensor"
)

// LibSVMOptions says how lines of libsvm's format become samples.
type LibSVMOptions struct {
	LabelDType tensor.DType // Int64 for classes, Float32 for regression
	Features   int64        // numbers of features are below; 0 for any number that is not negative
}

// LibSVM converts each line into a sample, and returns the number of samples. A line is a label and the features that are not 0, each as NUMBER:VALUE,
// between spaces; # begins a comment. A sample is the sequence of the numbers int64[features, 1], that of the values float32[features, 1], and the label [1].
// Numbers rise, and are taken as they are; most files count from 1. A label of class -1, as files of two classes have it, is class 0: a file
// that has labels 0, too, is refused.
func LibSVM(ctx context.Context, r io.Reader, w dataset.RecordWriter, options LibSVMOptions) (int, error) {
	if options.LabelDType != tensor.Int64 && options.LabelDType != tensor.Float32 || options.Features < 0 {
		return 0, fault.E(fault.InvalidArgument, fault.Gotf("a label of %v, %d features", options.LabelDType, options.Features), fault.Want("int64 or float32, 0 or more features"))
	}
	var ids []int64
	var values []float32
	var record []byte
	written := 0
	zero, minus := 0, 0 // lines of the first labels 0 and -1
	err := eachLine(ctx, r, func(line string, number int) error {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			return nil
		}
		label, f := labelOf(fields[0], options.LabelDType, number, &zero, &minus)
		if f != nil {
			return placed(f, number)
		}
		ids, values = ids[:0], values[:0]
		for _, field := range fields[1:] {
			id, value, f := featureOf(field, options.Features)
			if f == nil && len(ids) > 0 && id <= ids[len(ids)-1] {
				f = fault.E(fault.Corrupt, fault.Gotf("the feature %s behind the number %d", fault.Quote(field), ids[len(ids)-1]), fault.Want("numbers that rise, each once"))
			}
			if f != nil {
				return placed(f, number)
			}
			ids, values = append(ids, id), append(values, value)
		}
		first, err := sequence(ids, 1)
		if err != nil {
			return err
		}
		second, err := sequence(values, 1)
		if err != nil {
			return err
		}
		record = dataset.AppendRecord(record[:0], first, second, label)
		if err := w.Write(record); err != nil {
			return err
		}
		written++
		return nil
	})
	return written, err
}

// labelOf reads the label of a line. zero and minus are the lines of the first labels 0 and -1, from 1 on, which cannot both be class 0.
func labelOf(text string, dtype tensor.DType, line int, zero, minus *int) (*tensor.Tensor, *fault.Fault) {
	x, f := parseFloat(text, 32)
	if f != nil {
		return nil, f
	}
	if dtype == tensor.Float32 {
		label, _ := tensor.FromSlice([]float32{float32(x)}, 1)
		return label, nil
	}
	class, ok := integer.Parse(text, 64)
	if !ok || class < -1 {
		return nil, fault.E(fault.Corrupt, fault.Got("the label "+fault.Quote(text)), fault.Want("a class from 0 on, or -1"), fault.Hint("labels that are numbers are float32 (--label-type float32)"))
	}
	switch class {
	case 0:
		*zero = cmp.Or(*zero, line)
	case -1:
		*minus = cmp.Or(*minus, line)
	}
	if *zero > 0 && *minus > 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("the label %s, and %d in line %d", text, -1-class, min(*zero, *minus)),
			fault.Want("only one of 0 and -1, which becomes class 0"), fault.Hint("number the classes from 0 on, or keep labels as numbers, of float32 (--label-type float32)"))
	}
	label, _ := tensor.FromSlice([]int64{max(class, 0)}, 1)
	return label, nil
}

// featureOf reads NUMBER:VALUE.
func featureOf(text string, features int64) (id int64, value float32, f *fault.Fault) {
	number, rest, ok := strings.Cut(text, ":")
	id, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || id < 0 || features > 0 && id >= features {
		want := "NUMBER:VALUE with a number from 0 on"
		if features > 0 {
			want += " and below " + strconv.FormatInt(features, 10)
		}
		return 0, 0, fault.E(fault.Corrupt, fault.Got("the feature "+fault.Quote(text)), fault.Want(want))
	}
	x, f := parseFloat(rest, 32)
	return id, float32(x), f
}
