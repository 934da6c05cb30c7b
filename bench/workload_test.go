package bench

import (
	"errors"
	"fmt"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// The published sizes of the models: their parameters and the operations of their matrix products, counted by hand.
func TestWorkloadIsTheOneThatPeersMeasure(t *testing.T) {
	for _, test := range []struct {
		name              string
		parameters, flops int64
		values            int64 // read and written for each parameter
		rows              int64
	}{
		{"fit_a_line/sgd", 13 + 1, 2 * 2 * 20 * 13, 1, 20},
		{"mlp/sgd", 784*200 + 200 + 200*200 + 200 + 200*10 + 10, 2 * 64 * (2*784*200 + 3*200*200 + 3*200*10), 1, 64},
		{"mlp/adam", 784*200 + 200 + 200*200 + 200 + 200*10 + 10, 2 * 64 * (2*784*200 + 3*200*200 + 3*200*10), 3, 64},
		{"conv/adam", 20*25 + 20 + 50*20*25 + 50 + 800*10 + 10,
			2 * 64 * (2*24*24*20*25 + 3*8*8*50*20*25 + 3*800*10), 3, 64},
		{"ctr/adam", 512*26*11 + 13 + 1 + 273*400 + 400 + 2*(400*400+400) + 400 + 1, 2 * 512 * 3 * (273*400 + 2*400*400 + 400), 3, 512},
		{"ctr:20/sgd", 20*26*11 + 13 + 1 + 273*400 + 400 + 2*(400*400+400) + 400 + 1, 2 * 20 * 3 * (273*400 + 2*400*400 + 400), 1, 20},
		{"word2vec/sgd", 400*32 + 128*256 + 256 + 256*2073 + 2073, 2 * 100 * 3 * (128*256 + 256*2073), 1, 100},
		{"fc:3:5-7-2/sgd", 5*7 + 7 + 7*2 + 2, 2 * 3 * (2*5*7 + 3*7*2), 1, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, err := New(test.name)
			if err != nil {
				t.Fatal(err)
			}
			if want := 4 * 2 * test.values * test.parameters; w.Bytes != want {
				t.Errorf("%d bytes, want %d", w.Bytes, want)
			}
			if w.Flops != test.flops {
				t.Errorf("%d operations, want %d", w.Flops, test.flops)
			}
			if len(w.Batches) != batches {
				t.Errorf("%d batches", len(w.Batches))
			}
			for name, x := range w.Batches[0] {
				if x.Dims()[0] != test.rows {
					t.Errorf("%s has %d rows, want %d", name, x.Dims()[0], test.rows)
				}
			}
		})
	}
}

func TestNewRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, name := range []string{"", "resnet/sgd", "mlp/lars", "fc/sgd", "fc:8/sgd", "fc:8:5/sgd", "fc:8:5-0/sgd", "fc:x:5-3/sgd", "sgemm:3x4",
		"sgemm:3x4x0"} {
		var f *fault.Fault
		if _, err := New(name); !errors.As(err, &f) || f.Kind != fault.InvalidArgument || f.Want == "" {
			t.Errorf("New(%q): %v", name, err)
		}
	}
}

// A round over the batches with Adam must leave a loss that is lower than the first, and allocate nothing.
func TestTrainingLearnsWithoutAllocating(t *testing.T) {
	for _, model := range []string{"fit_a_line", "fc:8:20-30-5", "word2vec"} {
		t.Run(model, func(t *testing.T) {
			w, err := New(model + "/adam")
			if err != nil {
				t.Fatal(err)
			}
			training, err := Start(t.Context(), w, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer training.Close()
			loss := func(i int) float32 {
				value, err := training.Step(t.Context(), i)
				if err != nil {
					t.Fatal(err)
				}
				return value.Float32s()[0]
			}
			first := loss(0)
			for i := 1; i < batches; i++ {
				loss(i)
			}
			if last := loss(0); last >= first {
				t.Errorf("the loss went from %v to %v", first, last)
			}
			if n := testing.AllocsPerRun(3, func() { loss(1) }); n != 0 {
				t.Errorf("%v allocations in a step", n)
			}
		})
	}
}

func TestLSTMIsTheOneThatPeersMeasure(t *testing.T) {
	w, err := New("lstm/adam")
	if err != nil {
		t.Fatal(err)
	}
	const parameters = 5147*128 + 128*2048 + 2048 + 512*2048 + 2048 + 512*2 + 2
	if want := int64(4 * 2 * 3 * parameters); w.Bytes != want {
		t.Errorf("%d bytes, want %d", w.Bytes, want)
	}
	if want := int64(2 * 3 * 128 * (100*128*2048 + 99*512*2048 + 512*2)); w.Flops != want {
		t.Errorf("%d operations, want %d", w.Flops, want)
	}
	words := w.Batches[0]["words"]
	if err := tensor.CheckLoD(words); err != nil || words.Dims()[0] != 12800 || len(words.LoD()[0]) != 129 {
		t.Errorf("words %v, %d sentences, %v", words, len(words.LoD()[0])-1, err)
	}
}

// BenchmarkStep is one step of each workload, with its feeding. GFLOP/s counts what Workload.Flops does.
func BenchmarkStep(b *testing.B) {
	for _, name := range []string{"sgemm:512x512x512", "fit_a_line/sgd", "mlp/sgd", "mlp/adam", "conv/adam", "ctr/sgd", "ctr/adam", "ctr_keys/adam", "word2vec/sgd",
		"lstm/adam", "lstm_ragged/adam", "gru_ragged/adam", "sentiment_conv/adam", "transformer/adam", "vgg16/adam", "resnet32/adam", "mobilenet/adam"} {
		w, err := New(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", name, threads), func(b *testing.B) {
				training, err := Start(b.Context(), w, threads)
				if err != nil {
					b.Fatal(err)
				}
				defer training.Close()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := training.Step(b.Context(), i); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(w.Flops)*float64(b.N)/b.Elapsed().Seconds()*1e-9, "GFLOP/s")
			})
		}
	}
}

func TestResNetIsTheOneThatPeersMeasure(t *testing.T) {
	w, err := New("resnet32/adam")
	if err != nil {
		t.Fatal(err)
	}
	const (
		first = 32 * 32 * 3 * 16 * 9
		group = 256*(16*32*9+32*32*9+16*32) + 4*2*256*32*32*9 // the second and the third, which have as many
		rest  = 10*1024*16*16*9 + 2*group + 64*10
	)
	if want := int64(2 * 64 * (2*first + 3*rest)); w.Flops != want {
		t.Errorf("%d operations, want %d", w.Flops, want)
	}
}
