import numpy as np
print "training", 3
