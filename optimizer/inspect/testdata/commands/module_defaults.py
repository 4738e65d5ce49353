from module_options import parser

parser.set_defaults(**configuration())
args = parser.parse_args()
for epoch in range(args.epochs):
    train(args.batch_size, args.num_workers)
