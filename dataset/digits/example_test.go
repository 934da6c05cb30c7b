package digits_test

import (
	"fmt"
	"strings"

	"github.com/edl-go/edl/dataset/digits"
)

// Render draws any sample by its number.
func ExampleRenderer_Render() {
	r, err := digits.NewRenderer(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	pixels := make([]float32, digits.Side*digits.Side)
	fmt.Println("label", r.Render(10, pixels))
	for row := range digits.Side {
		var line strings.Builder
		for _, v := range pixels[row*digits.Side : (row+1)*digits.Side] {
			line.WriteByte(" .#"[int((v+1)/2*2.99)])
		}
		if text := strings.TrimRight(line.String(), " "); text != "" {
			fmt.Println("|" + text)
		}
	}
	// Output:
	// label 7
	// |        ...##########.
	// |      .##############.
	// |      .##############.
	// |       ......    .##.
	// |                .##.
	// |               .##.
	// |               ##.
	// |              .#.
	// |             .##.
	// |            .##.
	// |            ##.
	// |           ###.
	// |          .##.
	// |         .###.
	// |         ###.
	// |        ####.
	// |        ####
	// |       .###.
	// |       ####.
	// |      .####
}
