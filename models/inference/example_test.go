package inference_test

import (
	"fmt"
	"log"

	"github.com/dptrain/dptrain/models/inference"
)

func Example() {
	dir := exampleRun() // the folder of dptrain train --out
	model, err := inference.Load(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	answers, err := model.Predict([]inference.Row{{"age": 39, "sex": "Female"}, {"age": 61, "sex": "Male"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range answers {
		fmt.Printf("%s %.3f\n", a.Class, a.Probability)
	}
	// Output:
	// low 0.666
	// high 0.767
}
