// Halite: Salt in one static binary. The name the program is called by, or its
// first argument, decides which command line it is.
package main

import "os"

func main() { os.Exit(0) }
