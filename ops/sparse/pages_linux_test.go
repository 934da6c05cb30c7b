package sparse_test

import (
	"testing"
	"unsafe"

	"github.com/edl-go/edl/internal/resident"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Two regions of a table and of its moments fill up, beyond large pages, in several steps. Each row keeps its values, and memory is taken for rows in use.
func TestMemoryOfRegions(t *testing.T) {
	const region, width, steps, each = 2048, 1024, 4, 400 // rows of 4 KB, regions of 8 MB
	const height = region * kernel.KeyRegions
	w, moment := zeros(t, tensor.Float32, height, width), zeros(t, tensor.Float32, height, width)
	keys, index := zeros(t, tensor.Int64, height), zeros(t, tensor.Int32, height)
	attrs := map[string]program.Attr{"table_name": "w", "seed": int64(5), "min": float32(-1), "max": float32(1), "region_rows": int64(region)}
	initial := kernel.InitialRow{Seed: 5, Table: kernel.StreamOf("w"), Low: -1, High: 1}
	next, all := int64(0), []int64{}
	for step := range steps {
		var batch []int64
		for len(batch) < 2*each {
			if next++; kernel.RegionOf(kernel.MixKey(next)) == 3 || kernel.RegionOf(kernel.MixKey(next)) == 60 {
				batch = append(batch, next)
			}
		}
		all = append(all, batch...)
		rows := zeros(t, tensor.Int64, int64(len(batch)))
		for i, key := range batch {
			rows.Int64s()[i] = kernel.KeyRow(kernel.MixKey(key), height)
		}
		grad, err := tensor.Select(zeros(t, tensor.Float32, int64(len(batch)), width), rows, height)
		if err != nil {
			t.Fatal(err)
		}
		if err := run(t, "lookup_sparse_table_insert", attrs, tensors{"Param": {w}, "Keys": {keys}, "Index": {index}, "Grad": {grad}, "Moments": {moment}},
			tensors{"ParamOut": {w}, "KeysOut": {keys}, "IndexOut": {index}}); err != nil {
			t.Fatal(err)
		}
		table := kernel.KeyTable{Keys: keys.Int64s(), Index: index.Int32s(), Region: region}
		want := make([]float32, width)
		for _, key := range all {
			row := table.Find(kernel.MixKey(key))
			if row < 0 {
				t.Fatalf("step %d: key %d has no row", step, key)
			}
			initial.Fill(want, kernel.MixKey(key))
			for i, x := range w.Float32s()[row*width:][:width] {
				if x != want[i] {
					t.Fatalf("step %d: element %d of key %d is %v, want %v", step, i, key, x, want[i])
				}
			}
			moment.Float32s()[row*width]++
		}
	}
	table := kernel.KeyTable{Keys: keys.Int64s(), Index: index.Int32s(), Region: region}
	for i, key := range all {
		if got, want := moment.Float32s()[table.Find(kernel.MixKey(key))*width], float32(steps-i/(2*each)); got != want {
			t.Fatalf("the moment of key %d is %v, want %v", key, got, want)
		}
	}
	for name, v := range map[string]*tensor.Tensor{"values": w, "moments": moment} {
		memory := unsafe.Slice((*byte)(unsafe.Pointer(&v.Float32s()[0])), v.Bytes())
		if have, err := resident.Bytes(memory); err == nil && have > int64(len(all))*width*4+(1<<20) {
			t.Errorf("%s take %d bytes of memory for %d rows of %d", name, have, len(all), width*4)
		}
	}
}
