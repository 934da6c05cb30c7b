package coordinator

import (
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/remote/id"
)

// Whatever becomes of trainers, each batch counts once: those that answer again, too late, or for another, and those whose generation ends while they evaluate.
func TestEachBatchOfHeldBackDataCountsOnce(t *testing.T) {
	for seed := range uint64(300) {
		draw := rand.New(rand.NewPCG(seed, 7))
		h := &heldBack{round: 10, batches: draw.Int64N(200)}
		counts := make([]int, h.batches)
		generation := id.Generation(1)
		type answer struct {
			from holder
			part span
		}
		var answers []answer // that are under way; some come again
		for step := 0; !h.complete(); step++ {
			if step > 20000 {
				t.Fatalf("seed %d: %d of %d batches have counted", seed, h.done, h.batches)
			}
			switch from := (holder{id.Rank(draw.IntN(3)), generation}); {
			case draw.IntN(12) == 0:
				generation++
				h.lose(generation)
			case draw.IntN(2) == 0 || len(answers) == 0:
				if part, ok := h.give(from, 3); ok {
					if again, _ := h.give(from, 3); again != part {
						t.Fatalf("seed %d: %v was given %v, and then %v", seed, from, part, again)
					}
					answers = append(answers, answer{from, part})
				}
			default:
				a := answers[draw.IntN(len(answers))]
				if draw.IntN(10) == 0 {
					a.from.rank++
				}
				if h.take(a.from, a.part) {
					for b := a.part.from; b < a.part.to; b++ {
						counts[b]++
					}
					h.counted(a.part)
				}
			}
		}
		for b, n := range counts {
			if n != 1 {
				t.Fatalf("seed %d: batch %d counts %d times", seed, b, n)
			}
		}
	}
}
