package bench

import "testing"

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
	if err := words.CheckLoD(); err != nil || words.Dims()[0] != 12800 || len(words.LoD()[0]) != 129 {
		t.Errorf("words %v, %d sentences, %v", words, len(words.LoD()[0])-1, err)
	}
}
