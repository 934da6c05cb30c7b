package bench

import "github.com/edl-go/edl/layers"

// word2vec guesses a word from the four before it (Bengio et al. 2003).
func word2vec(b *builder, _ string) layers.Variable {
	const batch, context, vocabulary, width, hidden = 100, 4, 2073, 32, 256
	words := b.choices("words", vocabulary, batch, context, 1)
	h := layers.FC(b.table(words, "vectors", vocabulary, width, batch*context, layers.Xavier()), hidden, layers.Act("sigmoid"))
	b.multiplies(batch*context*width*hidden, false)
	b.multiplies(batch*hidden*vocabulary, false)
	return b.classify(layers.FC(h, vocabulary), batch, vocabulary)
}
