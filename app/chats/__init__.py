"""The chats in a terminal: ``pagedchat chat`` talks, ``pagedchat sessions`` lists, shows, moves and mends."""
