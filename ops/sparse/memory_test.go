package sparse_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	_ "github.com/edl-go/edl/ops/math"
	_ "github.com/edl-go/edl/ops/optim"

	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// BenchmarkTableMemory trains each of EDL_TABLE_KEYS keys (a million) once, with Adagrad, in a table of 16 numbers a row that has room for a third more rows. It
// reports the memory of the process for each key, and what of it is beyond the values, of 64 bytes or 32 as bfloat16, and 64 of state.
func BenchmarkTableMemory(b *testing.B) {
	for _, stored := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		b.Run(stored.String(), func(b *testing.B) { tableMemory(b, stored) })
	}
}

func tableMemory(b *testing.B, stored tensor.DType) {
	keys := int64(1_000_000)
	if text := os.Getenv("EDL_TABLE_KEYS"); text != "" {
		var err error
		if keys, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	const width, batch = 16, 1 << 16
	region := (keys*4/3 + kernel.KeyRegions - 1) / kernel.KeyRegions
	height := region * kernel.KeyRegions
	for b.Loop() {
		before := ofProcess(b)
		var made []*tensor.Tensor
		variable := func(dtype tensor.DType, dims ...int64) []*tensor.Tensor {
			v := zeros(b, dtype, dims...)
			made = append(made, v)
			if err := run(b, "fill_constant", map[string]program.Attr{"shape": dims, "dtype": int32(dtype)}, nil, tensors{"Out": {v}}); err != nil {
				b.Fatal(err)
			}
			return []*tensor.Tensor{v}
		}
		w, moment := variable(stored, height, width), variable(tensor.Float32, height, width)
		key, index := variable(tensor.Int64, height), variable(tensor.Int32, height)
		rate := zeros(b, tensor.Float32, 1)
		rate.Float32s()[0] = 0.1
		attrs := map[string]program.Attr{"table_name": "w", "seed": int64(1), "min": float32(-0.25), "max": float32(0.25), "region_rows": region}
		list := make([]int64, 0, batch)
		for at := int64(0); at < keys; at += batch {
			list = list[:0]
			for k := at; k < min(at+batch, keys); k++ {
				list = append(list, k<<7)
			}
			grad := []*tensor.Tensor{gradient(b, list, height, width, 0)}
			numbers := zeros(b, tensor.Int64, int64(len(list)))
			placed, err := tensor.Select(zeros(b, tensor.Float32, int64(len(list)), width), numbers, height)
			if err == nil {
				err = run(b, "lookup_sparse_table_insert", attrs, tensors{"Param": w, "Keys": key, "Index": index, "Grad": grad, "Moments": moment}, tensors{"ParamOut": w, "KeysOut": key, "IndexOut": index})
			}
			if err == nil {
				err = run(b, "lookup_sparse_table_rows", map[string]program.Attr{"region_rows": region}, tensors{"X": grad, "Keys": key, "Index": index}, tensors{"Out": {placed}})
			}
			if err == nil {
				err = run(b, "adagrad", map[string]program.Attr{"epsilon": float32(1e-6)}, tensors{"Param": w, "Grad": {placed}, "Moment": moment, "LearningRate": {rate}},
					tensors{"ParamOut": w, "MomentOut": moment})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		each := float64(ofProcess(b)-before) / float64(keys)
		b.ReportMetric(each, "bytes/key")
		b.ReportMetric(each-float64((4+stored.Size())*width), "bytes/key-beyond")
		runtime.KeepAlive(made)
	}
}

// ofProcess is the memory of this process in bytes, without what the collector could free.
func ofProcess(b *testing.B) int64 {
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("no /proc here")
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kilobytes int64
			if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
				b.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	b.Skip("no VmRSS here")
	return 0
}
